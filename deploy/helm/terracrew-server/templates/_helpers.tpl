{{- define "terracrew-server.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "terracrew-server.selector" -}}
app.kubernetes.io/name: terracrew-server
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "terracrew-server.labels" -}}
{{ include "terracrew-server.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "terracrew-server.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "terracrew-server.name" .) }}
{{- else -}}
{{ required "serviceAccount.name is required if serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "terracrew-server.publicUrl" -}}
{{- if .Values.publicUrl -}}
{{ .Values.publicUrl }}
{{- else if .Values.ingress.enabled -}}
{{ ternary "https" "http" (ne .Values.ingress.tlsSecret "") }}://{{ .Values.ingress.host }}
{{- else -}}
http://{{ include "terracrew-server.name" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}
{{- end -}}
{{- end -}}

{{/* The names of the service, by which runners in the cluster reach the server, too. */}}
{{- define "terracrew-server.hosts" -}}
{{- $name := include "terracrew-server.name" . -}}
{{ $name }} {{ $name }}.{{ .Release.Namespace }} {{ $name }}.{{ .Release.Namespace }}.svc {{ $name }}.{{ .Release.Namespace }}.svc.cluster.local
{{- range .Values.settings.allowed_hosts }} {{ . }}{{ end -}}
{{- end -}}

{{/* Whether something is kept on a volume. */}}
{{- define "terracrew-server.hasVolume" -}}
{{- if not (and .Values.database.existingSecret .Values.objectStore) -}}yes{{- end -}}
{{- end -}}

{{/* Reports combinations that no schema describes well. */}}
{{- define "terracrew-server.check" -}}
{{- if and (gt (int .Values.replicas) 1) (include "terracrew-server.hasVolume" .) -}}
{{- fail "replicas above 1 need PostgreSQL and an object store, which all servers share: set database.existingSecret and objectStore" -}}
{{- end -}}
{{- if and .Values.database.existingSecret (not .Values.masterKey.existingSecret) -}}
{{- fail "masterKey.existingSecret is required with PostgreSQL: the key that encrypts secrets is not kept in the database" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) -}}
{{- fail "ingress.host is required if ingress.enabled is true" -}}
{{- end -}}
{{- end -}}
