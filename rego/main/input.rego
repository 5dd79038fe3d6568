package sandboxd

# METADATA
# title: The input is complete
# description: >-
#   Every field is there and no other. A missing field makes a condition undefined, and an undefined condition speaks against nothing; so nothing
#   passes before this is proven. What the fields may be is for the questions to prove.
# labels:
#   rule: main.input
complete contains "main.input" if {
	object.keys(input) == {"action", "caller", "command", "file", "image", "limits", "network", "program", "sandbox", "securityContext"}
	object.keys(input.caller) == {"gid", "uid", "via"}
	object.keys(input.image) == {"digest", "name"}
	object.keys(input.securityContext) == {
		"allowPrivilegeEscalation", "capabilities", "privileged", "procMount", "readOnlyRootFilesystem", "runAsGroup", "runAsNonRoot",
		"runAsUser", "seccompProfile", "supplementalGroups",
	}
	object.keys(input.securityContext.capabilities) == {"add", "drop"}
	object.keys(input.securityContext.seccompProfile) == {"localhostProfile", "type"}
	object.keys(input.network) == {"defaultAction", "egress", "datagrams"}
	object.keys(input.command) == {"argv", "cwd", "envNames", "leaveChildren", "readOnly", "stdinBytes", "stdinDigest", "terminal"}
	object.keys(input.file) == {"follow", "mode", "operation", "parents", "path", "to"}
	object.keys(input.program) == {"codeBytes", "codeDigest", "cwd", "envNames", "inputsBytes", "inputsDigest", "language"}
	object.keys(input.limits) == {"cpu", "cpuSeconds", "fileBytes", "memoryBytes", "openFiles", "outputBytes", "pids", "timeoutSeconds"}
}
