{{- define "ottla-cluster.name" -}}
{{- .Values.cluster.name | default .Release.Name -}}
{{- end }}

{{- define "ottla-cluster.metadata" -}}
labels:
  app.kubernetes.io/name: ottla
  app.kubernetes.io/instance: {{ .Release.Name }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
  {{- with .Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (ternary (dict "helm.sh/resource-policy" "keep") dict .Values.keep) .Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
