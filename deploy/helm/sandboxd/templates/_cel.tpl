{{/*
A value as CEL writes it for a mutation: objects as Object.PATH{…}, which takes any field. (dict "path" "spec.initContainers" "value" X)
*/}}
{{- define "sandboxd.cel" -}}
{{- $path := .path }}
{{- if kindIs "map" .value -}}
Object.{{ $path }}{
{{- $fields := list }}
{{- range $key, $value := .value }}{{ $fields = append $fields (printf "%s: %s" $key (include "sandboxd.cel" (dict "path" (printf "%s.%s" $path $key) "value" $value))) }}{{ end }}
{{- join ", " $fields -}}
}
{{- else if kindIs "slice" .value -}}
{{- $items := list }}
{{- range .value }}{{ $items = append $items (include "sandboxd.cel" (dict "path" $path "value" .)) }}{{ end -}}
[{{ join ", " $items }}]
{{- else if kindIs "string" .value -}}
{{ .value | toJson }}
{{- else if kindIs "float64" .value -}}
{{ .value | int64 }}
{{- else -}}
{{ .value | toJson }}
{{- end }}
{{- end }}
