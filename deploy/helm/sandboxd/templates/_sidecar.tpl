{{/* What every container of ours has, whatever the tier. */}}
{{- define "sandboxd.locked" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
privileged: false
procMount: Default
{{- end }}

{{/* Copies the launcher to where the runner has it, read-only there. */}}
{{- define "sandboxd.install" -}}
name: sandboxd-install
image: {{ include "sandboxd.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [install, /launcher]
resources:
  requests: {cpu: 10m, memory: 16Mi}
  limits: {memory: 64Mi}
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

{{/* The sidecar: a native one, so that the runner starts after it is proven able, and ends before it does. */}}
{{- define "sandboxd.sidecar" -}}
{{- $root := ne .Values.tier "restricted" -}}
name: sandboxd
image: {{ include "sandboxd.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
restartPolicy: Always
args:
- serve
- --socket=/run/sandboxd/api/socket/sandboxd.sock
- --runner-socket=/run/sandboxd/runner/socket/launcher.sock
- --runner-uid={{ .Values.runner.user }}
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
{{- range $path, $_ := .Values.runner.writable }}
- --writable={{ $path }}
{{- end }}
- --max-running={{ .Values.sandboxd.maxRunning }}
- --max-waiting={{ .Values.sandboxd.maxWaiting }}
- --drift-interval={{ .Values.sandboxd.driftInterval }}
- --on-drift={{ .Values.sandboxd.onDrift }}
- --stop-timeout={{ max 1 (sub (int .Values.terminationGracePeriodSeconds) 5) }}s
{{- with .Values.metrics.port }}
- --metrics-listen=0.0.0.0:{{ . }}
- --metrics-listen-beyond-loopback
{{- end }}
{{- if $root }}
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
  exec: {command: [/sandboxd, healthz, --socket=/run/sandboxd/api/socket/sandboxd.sock]}
  periodSeconds: 1
  timeoutSeconds: 3
  failureThreshold: 60
readinessProbe:
  exec: {command: [/sandboxd, healthz, --ready, --socket=/run/sandboxd/api/socket/sandboxd.sock]}
  periodSeconds: 2
  timeoutSeconds: 3
resources:
  {{- toYaml .Values.sandboxd.resources | nindent 2 }}
securityContext:
  {{- include "sandboxd.locked" . | nindent 2 }}
  runAsUser: {{ include "sandboxd.uid" . }}
  runAsGroup: {{ include "sandboxd.gid" . }}
  runAsNonRoot: {{ not $root }}
  {{- if eq .Values.tier "full" }}
  # SYS_PTRACE reads what /proc shows of another uid, SYS_ADMIN the filter of a process, KILL ends what is left of one.
  capabilities: {drop: [ALL], add: [KILL, NET_ADMIN, SYS_ADMIN, SYS_PTRACE]}
  # The runtime's profile refuses ptrace on older kernels, and setns.
  seccompProfile: {type: Unconfined}
  {{- else if eq .Values.tier "net" }}
  capabilities: {drop: [ALL], add: [NET_ADMIN]}
  seccompProfile: {type: RuntimeDefault}
  {{- else }}
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
  {{- end }}
volumeMounts:
- {name: sandboxd-api, mountPath: /run/sandboxd/api}
- {name: sandboxd-runner, mountPath: /run/sandboxd/runner}
- {name: sandboxd-state, mountPath: /var/lib/sandboxd}
{{- if .Values.events.enabled }}
# The only container with a token, and all that it is good for is events.
- {name: sandboxd-events, mountPath: /var/run/secrets/sandboxd.io/events, readOnly: true}
{{- end }}
{{- if include "sandboxd.policyMap" . }}
- {name: sandboxd-policy, mountPath: /etc/sandboxd/policy, readOnly: true}
{{- end }}
{{- end }}
