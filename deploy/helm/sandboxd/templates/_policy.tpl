{{/* The ConfigMap with the bundle; empty: the one that is built in. Pods that are injected into are of other namespaces, which have their own or none. */}}
{{- define "sandboxd.policyMap" -}}
{{- if .Values.policy.existingConfigMap }}{{ .Values.policy.existingConfigMap }}
{{- else if ne .Values.kind "Injection" }}{{ include "sandboxd.name" . }}-policy
{{- end }}
{{- end }}

{{/* The keys of the bundle's ConfigMap, whose names can't have slashes. */}}
{{- define "sandboxd.policyKeys" -}}
{{- if .Values.policy.existingConfigMap }}{{ .Values.policy.existingKeys | toJson }}
{{- else }}
{{- $keys := list }}
{{- range $path, $_ := .Files.Glob "bundle/**" }}{{ $keys = append $keys (trimPrefix "bundle/" $path | replace "/" "__") }}{{ end }}
{{- $keys | toJson }}
{{- end }}
{{- end }}

{{/* The bundle: built-in, its data.json with what policy.settings says. */}}
{{- define "sandboxd.policyData" -}}
{{- range $path, $content := .Files.Glob "bundle/**" }}
{{- $key := trimPrefix "bundle/" $path | replace "/" "__" }}
{{- if eq $key "data.json" }}
{{ $key }}: |
{{ mergeOverwrite ($content | toString | fromJson) (dict "settings" (deepCopy $.Values.policy.settings)) | toPrettyJson | indent 2 }}
{{- else }}
{{ $key }}: |
{{ $content | toString | indent 2 }}
{{- end }}
{{- end }}
{{- end }}
