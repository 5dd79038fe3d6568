package sandboxd.fixture

request := {
	"action": "exec",
	"sandbox": "",
	"image": {"name": "", "digest": ""},
	"caller": {"uid": 1000, "gid": 1000, "via": "cli"},
	"securityContext": {
		"privileged": false,
		"allowPrivilegeEscalation": false,
		"readOnlyRootFilesystem": true,
		"runAsNonRoot": true,
		"runAsUser": null,
		"runAsGroup": null,
		"supplementalGroups": [],
		"capabilities": {"add": [], "drop": ["ALL"]},
		"seccompProfile": {"type": "RuntimeDefault", "localhostProfile": null},
		"procMount": "Default",
	},
	"network": {"defaultAction": "deny", "egress": [], "datagrams": false},
	"command": {"argv": ["ls", "-l"], "envNames": ["HOME"], "cwd": "", "leaveChildren": false, "readOnly": false, "stdinBytes": 0, "stdinDigest": "sha256:0", "terminal": false},
	"program": {
		"language": "",
		"codeBytes": 0,
		"codeDigest": "sha256:0",
		"inputsBytes": 0,
		"inputsDigest": "sha256:0",
		"envNames": [],
		"cwd": "",
	},
	"file": {"operation": "", "path": "", "mode": null, "parents": false, "follow": false, "to": ""},
	"limits": {
		"timeoutSeconds": 60,
		"outputBytes": 1048576,
		"memoryBytes": 0,
		"pids": 512,
		"cpu": 0,
		"cpuSeconds": 0,
		"openFiles": 1024,
		"fileBytes": 0,
	},
}

# The request of a Python program.
program := object.union(request, {
	"action": "run",
	"command": {"argv": []},
	"program": {"language": "python", "codeBytes": 12},
})

# The request to read a file.
reading := object.union(request, {
	"action": "file",
	"sandbox": "box",
	"command": {"argv": []},
	"file": {"operation": "read", "path": "/work/file"},
})

with_file(file) := object.union(reading, {"file": file})

with_context(context) := object.union(request, {"securityContext": context})

with_command(command) := object.union(request, {"command": command})

with_image(image) := object.union(request, {"image": image})

with_limits(limits) := object.union(request, {"limits": limits})

with_network(network) := object.union(request, {"network": network})

rules(reasons) := {reason.rule | some reason in reasons}
