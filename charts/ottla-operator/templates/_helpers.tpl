{{- define "ottla-operator.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "ottla-operator.selectorLabels" -}}
app.kubernetes.io/name: ottla-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ottla-operator.labels" -}}
{{ include "ottla-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* Labels and annotations of an object; "labels" and "annotations" add to them. */ -}}
{{- define "ottla-operator.metadata" -}}
labels:
  {{- include "ottla-operator.labels" .root | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "ottla-operator.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "ottla-operator.name" .) "default" .Values.serviceAccount.create) -}}
{{- end }}

{{- /* A full image reference from a block of registry, repository, tag and digest. */ -}}
{{- define "ottla-operator.image" -}}
{{- $image := .image -}}
{{- with $image.registry }}{{ . }}/{{ end -}}
{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .root.Chart.AppVersion }}{{ end -}}
{{- end }}

{{- /* The permissions of the operator in each watched namespace. */ -}}
{{- define "ottla-operator.rules" -}}
- apiGroups: [ottla.dev]
  resources: [clusters, topics, users]
  verbs: [get, list, watch]
# Finalizers of Users, and of Topics whose deletion deletes the topic.
- apiGroups: [ottla.dev]
  resources: [topics, users]
  verbs: [patch]
- apiGroups: [ottla.dev]
  resources: [clusters/status, topics/status, users/status]
  verbs: [patch]
# Deleted without their pods, and recreated, when nodes get larger or more volumes.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete]
# Those of removed listeners are found by their labels, and deleted.
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, create, patch, delete]
# The accounts of nodes have no permissions, and the operator cannot grant any.
- apiGroups: [""]
  resources: [configmaps, serviceaccounts]
  verbs: [get, create, patch]
# Those of Users and of Clusters with TLS, and those that their specs name, each by its name; without list and watch.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch, delete]
# For listeners whose certificate is cert-manager's; deleted when no listener refers to it any more.
- apiGroups: [cert-manager.io]
  resources: [certificates]
  verbs: [get, create, patch, delete]
# Deleted to restart nodes; patched with the annotation that has a node's rack. Created in dry runs only, which have the
# errors of admission: statefulsets create any pod and claim, so this allows nothing more.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, create, patch, delete]
# Patched to grow and to have an owner; deleted if onScaleDown is Delete; created in dry runs only.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [list, create, patch, delete]
# Those of pods that wait for a volume are read: the cause is in no status.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [list, create]
{{- end }}
