# METADATA
# title: The security context
# description: >-
#   The Kubernetes Pod Security profile "restricted", made executable, for the container's securityContext. What was not asked for has
#   sandboxd's safe default before it comes here.
# related_resources:
#   - https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
package sandboxd.context

# METADATA
# title: Not privileged
# description: privileged is false.
# labels:
#   rule: context.privileged
proven contains "context.privileged" if input.securityContext.privileged == false

# METADATA
# title: No privilege escalation
# description: allowPrivilegeEscalation is false, so no_new_privs is set.
# labels:
#   rule: context.allowPrivilegeEscalation
proven contains "context.allowPrivilegeEscalation" if input.securityContext.allowPrivilegeEscalation == false

# METADATA
# title: Privileged
# description: A privileged container has no confinement left.
# labels:
#   rule: context.privileged
deny contains reason if {
	input.securityContext.privileged != false
	reason := {
		"rule": "context.privileged",
		"message": "A privileged context is never allowed; privileged must be false or absent.",
		"field": "securityContext.privileged",
		"change": {"op": "remove", "field": "securityContext.privileged"},
	}
}

# METADATA
# title: Privilege escalation
# description: With it a set-user-id program could gain what the child was denied.
# labels:
#   rule: context.allowPrivilegeEscalation
deny contains reason if {
	input.securityContext.allowPrivilegeEscalation != false
	reason := {
		"rule": "context.allowPrivilegeEscalation",
		"message": "Gaining privileges is never allowed; allowPrivilegeEscalation must be false or absent.",
		"field": "securityContext.allowPrivilegeEscalation",
		"change": {"op": "remove", "field": "securityContext.allowPrivilegeEscalation"},
	}
}
