{{- define "terracrew-runner.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "terracrew-runner.selector" -}}
app.kubernetes.io/name: terracrew-runner
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "terracrew-runner.labels" -}}
{{ include "terracrew-runner.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "terracrew-runner.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "terracrew-runner.name" .) }}
{{- else -}}
{{ required "serviceAccount.name is required if serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "terracrew-runner.jobNamespace" -}}
{{ .Values.dispatcher.namespace | default .Release.Namespace }}
{{- end -}}

{{/* The rules of what pods of runners and of jobs may connect to. */}}
{{- define "terracrew-runner.egress" -}}
{{- with .Values.networkPolicy.egress -}}
- ports:
    - { protocol: UDP, port: 53 }
    - { protocol: TCP, port: 53 }
{{ toYaml . }}
{{- else -}}
- {}
{{- end -}}
{{- end -}}

{{/* Reports combinations that no schema describes well. */}}
{{- define "terracrew-runner.check" -}}
{{- $federation := .Values.credentials.federation -}}
{{- if and $federation.enabled .Values.credentials.existingSecret -}}
{{- fail "set either credentials.existingSecret or credentials.federation.enabled, not both" -}}
{{- end -}}
{{- if not (or $federation.enabled .Values.credentials.existingSecret) -}}
{{- fail "set credentials.existingSecret to a Secret with the variables of `terracrew runner register`, or credentials.federation.enabled to true" -}}
{{- end -}}
{{- if $federation.enabled -}}
{{- range $name := list "organizationId" "runnerPath" "serviceAccountPath" -}}
{{- if not (get $federation $name) -}}
{{- fail (printf "credentials.federation.%s is required if credentials.federation.enabled is true" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.dispatcher.type "kubernetes") (not .Values.dispatcher.data.IMAGE) -}}
{{- fail "dispatcher.data.IMAGE is required if dispatcher.type is kubernetes: the image of executors" -}}
{{- end -}}
{{- end -}}
