"""The Kubernetes objects of a Cluster by kind; `model.kubernetes_objects` puts them together."""
