{{/* What every container of ours has, whatever the tier. */}}
{{- define "sandboxd.locked" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
privileged: false
procMount: Default
{{- end }}

{{/* Copies the launcher to where the runner has it, read-only there; in the tier full sandboxd itself as well. */}}
{{- define "sandboxd.install" -}}
name: sandboxd-install
image: {{ include "sandboxd.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [install{{ if eq .Values.tier "full" }}, --daemon{{ end }}, /launcher]
resources:
  requests: {cpu: 10m, memory: 16Mi}
  limits: {memory: {{ if eq .Values.tier "full" }}128Mi{{ else }}64Mi{{ end }}}
securityContext:
  {{- include "sandboxd.locked" . | nindent 2 }}
  runAsUser: {{ .Values.sandboxd.user }}
  runAsGroup: {{ .Values.sandboxd.group }}
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
volumeMounts:
- {name: sandboxd-launcher, mountPath: /launcher}
{{- end }}

{{/*
sandboxd, a native sidecar, so that what is beside it starts after it is proven able, and ends before it does. In the tier full there is no runner beside it:
it is the first process of a container of the runner's image, and makes sandboxes there as on a machine.
*/}}
{{- define "sandboxd.sidecar" -}}
{{- $root := ne .Values.tier "restricted" -}}
{{- $full := eq .Values.tier "full" -}}
name: sandboxd
{{- if $full }}
image: {{ .Values.runner.image | quote }}
imagePullPolicy: {{ .Values.runner.pullPolicy }}
command: [{{ include "sandboxd.program" . }}]
{{- else }}
image: {{ include "sandboxd.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}
{{- if or (not $full) .Values.app.image }}
restartPolicy: Always
{{- end }}
args:
- serve
- --socket=/run/sandboxd/api/socket/sandboxd.sock
{{- if $full }}
- --claim-file=/var/lib/sandboxd/claims
{{- if eq (toString .Values.hostUsers) "false" }}
# A pod's own user namespace has 65,536 ids.
- --first-uid=20000
- --uids=20000
{{- end }}
{{- range $path, $size := .Values.runner.writable }}
- --{{ trimPrefix "/" $path }}-bytes={{ $size }}B
{{- end }}
{{- range .Values.runner.show }}
- --show={{ . }}
{{- end }}
{{- range .Values.runner.volumeMounts }}
- --show={{ .mountPath }}
{{- end }}
{{- else }}
- --runner-socket=/run/sandboxd/runner/socket/launcher.sock
- --runner-uid={{ .Values.runner.user }}
{{- end }}
- --state=/var/lib/sandboxd
{{- if include "sandboxd.policyMap" . }}
- --policy=/etc/sandboxd/policy
{{- end }}
{{- if .Values.audit.stdout }}
- --audit-stdout
{{- end }}
{{- if .Values.events.enabled }}
- --events-pod=$(POD_NAME)
- --events-pod-uid=$(POD_UID)
- --events-credentials=/var/run/secrets/sandboxd.io/events
{{- end }}
- --log=json
- --log-level={{ .Values.sandboxd.logLevel }}
- --allow={{ include "sandboxd.uid" . }}
{{- if or .Values.app.image (eq .Values.kind "Injection") }}
- --allow={{ .Values.app.user }}
{{- end }}
{{- if not $full }}
{{- range $path, $_ := .Values.runner.writable }}
- --writable={{ $path }}
{{- end }}
{{- end }}
- --max-running={{ .Values.sandboxd.maxRunning }}
- --max-waiting={{ .Values.sandboxd.maxWaiting }}
- --drift-interval={{ .Values.sandboxd.driftInterval }}
- --on-drift={{ .Values.sandboxd.onDrift }}
{{- $grace := int .Values.terminationGracePeriodSeconds }}
- --drain-timeout={{ max 0 (sub $grace 10) }}s
- --stop-timeout={{ min 5 (max 1 (sub $grace 5)) }}s
{{- with .Values.metrics.port }}
- --metrics-listen=0.0.0.0:{{ . }}
- --metrics-listen-beyond-loopback
{{- end }}
{{- if $full }}
{{- else if $root }}
{{- with .Values.metrics.port }}
- --fence-port={{ . }}
{{- end }}
{{- if or .Values.app.image (eq .Values.kind "Injection") }}
- --fence-uid={{ .Values.app.user }}
{{- end }}
{{- range .Values.network.fenceUIDs }}
- --fence-uid={{ . }}
{{- end }}
{{- range .Values.network.fencePorts }}
- --fence-port={{ . }}
{{- end }}
{{- else if .Values.network.proxyPort }}
- --proxy-port={{ .Values.network.proxyPort }}
{{- end }}
{{- with .Values.metrics.port }}
ports:
- {name: metrics, containerPort: {{ . }}}
{{- end }}
{{- if .Values.events.enabled }}
env:
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
{{- end }}
startupProbe:
  exec: {command: [{{ include "sandboxd.program" . }}, healthz, --socket=/run/sandboxd/api/socket/sandboxd.sock]}
  periodSeconds: 1
  timeoutSeconds: 3
  failureThreshold: 60
readinessProbe:
  exec: {command: [{{ include "sandboxd.program" . }}, healthz, --ready, --socket=/run/sandboxd/api/socket/sandboxd.sock]}
  periodSeconds: 2
  timeoutSeconds: 3
# The kubelet runs this at once when the pod is to end, and sends the sidecar SIGTERM only when the others are gone, of which the launcher goes when sandboxd
# does: so it drains first, and then all end.
lifecycle:
  preStop:
    exec: {command: [{{ include "sandboxd.program" . }}, stop, --socket=/run/sandboxd/api/socket/sandboxd.sock, --timeout={{ max 1 (sub $grace 2) }}s]}
resources:
  {{- toYaml (ternary .Values.runner.resources .Values.sandboxd.resources $full) | nindent 2 }}
securityContext:
  {{- if and $full (eq (toString .Values.hostUsers) "false") }}
  {{- include "sandboxd.locked" . | replace "procMount: Default" "procMount: Unmasked" | nindent 2 }}
  {{- else }}
  {{- include "sandboxd.locked" . | nindent 2 }}
  {{- end }}
  runAsUser: {{ include "sandboxd.uid" . }}
  runAsGroup: {{ include "sandboxd.gid" . }}
  runAsNonRoot: {{ not $root }}
  {{- if eq .Values.tier "full" }}
  # SYS_ADMIN makes namespaces and mounts, NET_ADMIN and NET_BIND_SERVICE their fence, SETUID, SETGID and SETPCAP who runs in them; SYS_PTRACE reads what
  # /proc shows of another uid, KILL ends it, and CHOWN gives it its files. Nothing that runs in a sandbox has any of them.
  capabilities: {drop: [ALL], add: [CHOWN, KILL, NET_ADMIN, NET_BIND_SERVICE, SETGID, SETPCAP, SETUID, SYS_ADMIN, SYS_PTRACE]}
  # The runtime's profiles refuse mounts, and a filter of theirs would keep ours from being read. Each sandbox has ours.
  seccompProfile: {type: Unconfined}
  appArmorProfile: {type: Unconfined}
  {{- else if eq .Values.tier "net" }}
  capabilities: {drop: [ALL], add: [NET_ADMIN]}
  seccompProfile: {type: RuntimeDefault}
  {{- else }}
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
  {{- end }}
volumeMounts:
- {name: sandboxd-api, mountPath: /run/sandboxd/api}
{{- if $full }}
- {name: sandboxd-launcher, mountPath: /run/sandboxd/bin, readOnly: true}
{{- with .Values.runner.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- else }}
- {name: sandboxd-runner, mountPath: /run/sandboxd/runner}
{{- end }}
- {name: sandboxd-state, mountPath: /var/lib/sandboxd}
{{- if .Values.events.enabled }}
# The only container with a token, and all that it is good for is events.
- {name: sandboxd-events, mountPath: /var/run/secrets/sandboxd.io/events, readOnly: true}
{{- end }}
{{- if include "sandboxd.policyMap" . }}
- {name: sandboxd-policy, mountPath: /etc/sandboxd/policy, readOnly: true}
{{- end }}
{{- end }}
