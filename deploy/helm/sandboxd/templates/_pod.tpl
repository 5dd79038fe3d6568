{{- define "sandboxd.pod" -}}
{{- include "sandboxd.checks" . -}}
metadata:
  labels:
    {{- include "sandboxd.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    kubectl.kubernetes.io/default-container: sandboxd
    {{- if .Values.policy.restartOnChange }}
    checksum/policy: {{ include "sandboxd.policyData" . | sha256sum }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "sandboxd.serviceAccount" . | quote }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  # sandboxd reads the runner's processes in /proc. It is another user, so that nothing there can signal or read it.
  shareProcessNamespace: true
  hostNetwork: false
  hostPID: false
  hostIPC: false
  {{- if kindIs "bool" .Values.hostUsers }}
  hostUsers: {{ .Values.hostUsers }}
  {{- end }}
  {{- if eq .Values.kind "Job" }}
  restartPolicy: Never
  {{- end }}
  {{- with .Values.runtimeClassName }}
  runtimeClassName: {{ . | quote }}
  {{- end }}
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext:
    {{- if .Values.audit.existingClaim }}
    # A claim is root's, and sandboxd isn't.
    fsGroup: {{ .Values.sandboxd.group }}
    fsGroupChangePolicy: OnRootMismatch
    {{- end }}
    {{- if eq .Values.tier "restricted" }}
    runAsNonRoot: true
    {{- end }}
    seccompProfile: {type: RuntimeDefault}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  initContainers:
  - {{- include "sandboxd.install" . | nindent 4 }}
  {{- if or (ne .Values.tier "full") .Values.app.image }}
  - {{- include "sandboxd.sidecar" . | nindent 4 }}
  {{- end }}
  {{- if and (eq .Values.kind "Job") (ne .Values.tier "full") }}
  # With its app the Job ends, so that the runner is a sidecar too.
  - {{- include "sandboxd.runner" . | nindent 4 }}
    restartPolicy: Always
  {{- end }}
  containers:
  {{- if and (eq .Values.tier "full") (not .Values.app.image) }}
  - {{- include "sandboxd.sidecar" . | nindent 4 }}
  {{- else if and (ne .Values.kind "Job") (ne .Values.tier "full") }}
  - {{- include "sandboxd.runner" . | nindent 4 }}
  {{- end }}
  {{- if .Values.app.image }}
  - {{- include "sandboxd.app" . | nindent 4 }}
  {{- end }}
  volumes:
  {{- include "sandboxd.volumes" . | nindent 2 }}
  {{- if ne .Values.tier "full" }}
  {{- range $path, $size := .Values.runner.writable }}
  - {name: {{ include "sandboxd.writableName" $path }}, emptyDir: {sizeLimit: {{ $size | quote }}}}
  {{- end }}
  {{- end }}
  {{- with .Values.runner.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- range $field := list "nodeSelector" "tolerations" "affinity" }}
  {{- with index $.Values $field }}
  {{ $field }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
{{- end }}
