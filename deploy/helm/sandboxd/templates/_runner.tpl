{{/* The container that code sees. Its first process is the launcher, which serves sandboxd alone. */}}
{{- define "sandboxd.runner" -}}
name: runner
image: {{ .Values.runner.image | quote }}
imagePullPolicy: {{ .Values.runner.pullPolicy }}
command: [/run/sandboxd/launcher/sandboxd-runner, connect, /run/sandboxd/runner/socket/launcher.sock, {{ include "sandboxd.uid" . | quote }}]
{{- with .Values.runner.env }}
env:
{{ toYaml . }}
{{- end }}
resources:
  {{- toYaml .Values.runner.resources | nindent 2 }}
securityContext:
  {{- include "sandboxd.locked" . | nindent 2 }}
  runAsUser: {{ .Values.runner.user }}
  runAsGroup: {{ .Values.runner.group }}
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
volumeMounts:
- {name: sandboxd-launcher, mountPath: /run/sandboxd/launcher, readOnly: true}
- {name: sandboxd-runner, mountPath: /run/sandboxd/runner, readOnly: true}
{{- range $path, $_ := .Values.runner.writable }}
- {name: {{ include "sandboxd.writableName" $path }}, mountPath: {{ $path }}}
{{- end }}
{{- with .Values.runner.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "sandboxd.writableName" -}}writable{{ . | replace "/" "-" | replace "_" "-" | lower | trunc 50 | trimSuffix "-" }}{{- end }}

{{/* Who asks. It has the API's socket, and nothing of the runner's. */}}
{{- define "sandboxd.app" -}}
name: app
image: {{ .Values.app.image | quote }}
imagePullPolicy: {{ .Values.app.pullPolicy }}
{{- range $field := list "command" "args" "env" "ports" }}
{{- with index $.Values.app $field }}
{{ $field }}:
{{ toYaml . }}
{{- end }}
{{- end }}
{{- with .Values.app.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "sandboxd.locked" . | nindent 2 }}
  runAsUser: {{ .Values.app.user }}
  runAsGroup: {{ .Values.app.group }}
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
volumeMounts:
- {name: sandboxd-api, mountPath: /run/sandboxd/api, readOnly: true}
{{- with .Values.app.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
