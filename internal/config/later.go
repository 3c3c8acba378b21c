package config

// later reports whether the contract knows a setting, or this value of it, but
// the version at hand does not do it yet. Such a setting is refused by name,
// never ignored. When a behaviour is built, its line here goes.
func later(f field, value string) bool {
	const set = "" // any value but the default
	for _, l := range [...]struct{ name, value string }{
		{"BRIDGE_AUTH", "iam"},
		{"BRIDGE_AUTH", "iam-oauth"},
		{"BRIDGE_ROLE_ARN", set},
		{"BRIDGE_REGION", set},
		{"BRIDGE_AUTH", "scram"},
		{"BRIDGE_SCRAM_USER", set},
		{"BRIDGE_SCRAM_PASSWORD", set},
		{"BRIDGE_SCRAM_PASSWORD_FILE", set},
		{"BRIDGE_SCRAM_MECHANISM", set},
		{"BRIDGE_AUTH", "mtls"},
		{"BRIDGE_TLS_CERT_FILE", set},
		{"BRIDGE_TLS_KEY_FILE", set},
		{"BRIDGE_DIAL_ALLOW", set},
		{"ordering", "key"},
		{"on_oversize", "hold"},
		{"on_oversize", "store"},
		{"store", set},
		{"format", "envelope"},
		{"value", "json"},
		{"start", set},
		{"headers", set},
		{"skip", set},
	} {
		if l.name == f.name && (l.value == value || l.value == set && value != f.preset) {
			return true
		}
	}
	return false
}
