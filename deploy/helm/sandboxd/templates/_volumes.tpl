{{/* Our own volumes. What is small is in memory, so that it is gone with the pod. */}}
{{- define "sandboxd.volumes" -}}
- {name: sandboxd-launcher, emptyDir: {medium: Memory, sizeLimit: {{ if eq .Values.tier "full" }}64Mi{{ else }}16Mi{{ end }}}}
- {name: sandboxd-api, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
{{- if ne .Values.tier "full" }}
- {name: sandboxd-runner, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
{{- end }}
- name: sandboxd-state
  {{- if .Values.audit.existingClaim }}
  persistentVolumeClaim: {claimName: {{ .Values.audit.existingClaim | quote }}}
  {{- else }}
  emptyDir: {sizeLimit: {{ .Values.audit.sizeLimit | quote }}}
  {{- end }}
{{- if .Values.events.enabled }}
- name: sandboxd-events
  projected:
    sources:
    - serviceAccountToken: {path: token, expirationSeconds: 3600}
    - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
    - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
{{- end }}
{{- with include "sandboxd.policyMap" . }}
- name: sandboxd-policy
  configMap:
    name: {{ . | quote }}
    items:
    {{- range include "sandboxd.policyKeys" $ | fromJsonArray }}
    - {key: {{ . }}, path: {{ . | replace "__" "/" }}}
    {{- end }}
{{- end }}
{{- end }}
