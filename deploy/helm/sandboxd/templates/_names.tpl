{{- define "sandboxd.name" -}}
{{- if eq .Release.Name .Chart.Name }}{{ .Chart.Name }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "sandboxd.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sandboxd.labels" -}}
{{ include "sandboxd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "sandboxd.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "sandboxd.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "sandboxd.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{/* Uid and gid of sandboxd: Kubernetes gives added capabilities to uid 0 only. */}}
{{- define "sandboxd.uid" -}}{{ if eq .Values.tier "restricted" }}{{ .Values.sandboxd.user }}{{ else }}0{{ end }}{{- end }}
{{- define "sandboxd.gid" -}}{{ if eq .Values.tier "restricted" }}{{ .Values.sandboxd.group }}{{ else }}0{{ end }}{{- end }}

{{/* The program in its container. */}}
{{- define "sandboxd.program" -}}{{ if eq .Values.tier "full" }}/run/sandboxd/bin/sandboxd{{ else }}/sandboxd{{ end }}{{- end }}

{{/* What no schema can say: two of the three being one user would let that one signal, or read, the other. */}}
{{- define "sandboxd.checks" -}}
{{- $sandboxd := int (include "sandboxd.uid" .) }}
{{- if eq $sandboxd (int .Values.runner.user) }}{{ fail "runner.user: must not be sandboxd's own uid; code of that uid could signal sandboxd" }}{{ end }}
{{- if .Values.app.image }}
{{- if eq (int .Values.app.user) (int .Values.runner.user) }}{{ fail "app.user: must not be runner.user; code of that uid could signal the app" }}{{ end }}
{{- if eq (int .Values.app.user) $sandboxd }}{{ fail "app.user: must not be sandboxd's own uid" }}{{ end }}
{{- else if eq .Values.kind "Job" }}{{ fail "kind: a Job needs an app, with whose end it ends" }}
{{- end }}
{{- if eq .Values.tier "full" }}
{{- $first := ternary 20000 200000 (eq (toString .Values.hostUsers) "false") }}
{{- $last := ternary 39999 265535 (eq (toString .Values.hostUsers) "false") }}
{{- if eq .Values.kind "Injection" }}{{ fail "tier: full makes sandboxes in a container of its own; Injection, whose pods have a runner, takes net or restricted" }}{{ end }}
{{- if .Values.runner.env }}{{ fail "runner.env: in the tier full there is no launcher of the pod's to have it; say it in the request" }}{{ end }}
{{- range $path, $_ := .Values.runner.writable }}
{{- if not (has $path (list "/tmp" "/work")) }}{{ fail (printf "runner.writable: in the tier full each sandbox has its own /tmp and /work, and nothing else to write to; take %s out" $path) }}{{ end }}
{{- end }}
{{- range .Values.runner.volumeMounts }}
{{- if regexMatch "^/(proc|dev|sys|tmp|work)(/|$)" .mountPath }}{{ fail (printf "runner.volumeMounts: in the tier full each sandbox has its own %s; mount %s elsewhere" (regexFind "^/[a-z]+" .mountPath) .name) }}{{ end }}
{{- end }}
{{- if or .Values.network.fenceUIDs .Values.network.fencePorts }}{{ fail "network: fenceUIDs and fencePorts are for the fence around the whole pod; in the tier full each sandbox has a network of its own" }}{{ end }}
{{- if and (ge (int .Values.app.user) $first) (le (int .Values.app.user) $last) }}{{ fail (printf "app.user: %d to %d are the sandboxes' in the tier full" $first $last) }}{{ end }}
{{- end }}
{{- if and .Values.runner.show (ne .Values.tier "full") }}{{ fail "runner.show: is for the tier full; in the others code sees the whole image" }}{{ end }}
{{- if and .Values.metrics.podMonitor.enabled (not .Values.metrics.port) }}{{ fail "metrics.podMonitor: needs metrics.port" }}{{ end }}
{{- range $who := list "runner" "app" }}
{{- range (index $.Values $who).volumeMounts }}
{{- if hasPrefix "sandboxd-" .name }}{{ fail (printf "%s.volumeMounts: %s is sandboxd's own" $who .name) }}{{ end }}
{{- end }}
{{- end }}
{{- range $mount := .Values.runner.volumeMounts }}
{{- range $volume := $.Values.runner.volumes }}
{{- if and (eq $volume.name $mount.name) $volume.projected }}
{{- range $volume.projected.sources }}
{{- if .serviceAccountToken }}{{ fail (printf "runner.volumeMounts: %s has a ServiceAccount token, which is nothing for code" $mount.name) }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.events.enabled }}
{{- if eq .Values.kind "Injection" }}{{ fail "events: pods that are injected have service accounts of their own; bind the Role there, or use kind Deployment or Job" }}{{ end }}
{{- if not .Values.serviceAccount.create }}{{ fail "events: needs serviceAccount.create; another's account would get the right to make events too" }}{{ end }}
{{- if and .Values.networkPolicy.enabled (not .Values.events.apiServer.cidr) }}{{ fail "events.apiServer.cidr: the NetworkPolicy lets nothing out; want the API server's address, such as 192.0.2.10/32 (kubectl get endpointslices -n default), or networkPolicy.enabled=false" }}{{ end }}
{{- end }}
{{- range .Values.network.fenceUIDs }}
{{- if eq (int .) (int $.Values.runner.user) }}{{ fail "network.fenceUIDs: must not hold runner.user; that would let code out past the fence" }}{{ end }}
{{- end }}
{{- if and .Values.policy.existingConfigMap .Values.policy.settings }}{{ fail "policy: settings change the built-in bundle; with existingConfigMap it isn't there" }}{{ end }}
{{- if and .Values.policy.existingConfigMap (not .Values.policy.existingKeys) }}{{ fail "policy.existingKeys: want the ConfigMap's keys, such as main__decision.rego" }}{{ end }}
{{- end }}

{{/* Whether a pod asks for sandboxd, in CEL. */}}
{{- define "sandboxd.asks" -}}
'has(object.metadata.annotations) && "sandboxd.io/inject" in object.metadata.annotations && object.metadata.annotations["sandboxd.io/inject"] == "true"'
{{- end }}
