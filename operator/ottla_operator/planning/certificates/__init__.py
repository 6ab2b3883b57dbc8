"""Planning of certificates and their authorities."""
