package sandboxd.context

# METADATA
# title: A filter of the allowed kinds
# description: The kinds are in data, settings.context.seccomp_profile_types; Unconfined is not among them unless a person puts it there.
# labels:
#   rule: context.seccompProfile
proven contains "context.seccompProfile" if {
	input.securityContext.seccompProfile.type != "Localhost"
	input.securityContext.seccompProfile.type in data.settings.context.seccomp_profile_types
}

# METADATA
# title: A listed profile
# description: A Localhost profile is one of data, settings.context.seccomp_localhost_profiles.
# labels:
#   rule: context.seccompProfile
proven contains "context.seccompProfile" if {
	input.securityContext.seccompProfile.type == "Localhost"
	"Localhost" in data.settings.context.seccomp_profile_types
	input.securityContext.seccompProfile.localhostProfile in data.settings.context.seccomp_localhost_profiles
}

# METADATA
# title: Kind of filter not allowed
# description: A kind that data doesn't list is refused.
# labels:
#   rule: context.seccompProfile
deny contains reason if {
	not input.securityContext.seccompProfile.type in data.settings.context.seccomp_profile_types
	reason := {
		"rule": "context.seccompProfile",
		"message": sprintf("The seccomp profile must be one of these types: %s.", [concat(", ", data.settings.context.seccomp_profile_types)]),
		"field": "securityContext.seccompProfile.type",
		"change": {"op": "remove", "field": "securityContext.seccompProfile"},
	}
}

# METADATA
# title: Profile not listed
# description: A Localhost profile that data doesn't list is refused.
# labels:
#   rule: context.seccompProfile
deny contains reason if {
	input.securityContext.seccompProfile.type == "Localhost"
	"Localhost" in data.settings.context.seccomp_profile_types
	not input.securityContext.seccompProfile.localhostProfile in data.settings.context.seccomp_localhost_profiles
	reason := {
		"rule": "context.seccompProfile",
		"message": sprintf("These Localhost profiles are allowed: %s; RuntimeDefault always is.", [profiles]),
		"field": "securityContext.seccompProfile.localhostProfile",
		"change": {"op": "remove", "field": "securityContext.seccompProfile"},
	}
}

# METADATA
# title: The listed profiles in words
# description: For messages.
# labels:
#   rule: context.seccompProfile
profiles := concat(", ", data.settings.context.seccomp_localhost_profiles) if count(data.settings.context.seccomp_localhost_profiles) > 0

# METADATA
# title: No listed profiles
# description: For messages.
# labels:
#   rule: context.seccompProfile
profiles := "none" if count(data.settings.context.seccomp_localhost_profiles) == 0

# METADATA
# title: RuntimeDefault stays what it is
# description: Nothing is put in its place unless data says so.
# labels:
#   rule: context.seccompProfile
default effective := {}

# METADATA
# title: What RuntimeDefault means here
# description: >-
#   A profile of sandboxd's that is put in the place of RuntimeDefault, such as sandboxd/strict: data, settings.context.seccomp_runtime_default. A
#   request that names another listed profile gets that one. Go checks that it is tighter.
# labels:
#   rule: context.seccompProfile
effective := {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": profile}}} if {
	profile := data.settings.context.seccomp_runtime_default
	profile != ""
	input.securityContext.seccompProfile.type == "RuntimeDefault"
}
