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
