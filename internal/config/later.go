package config

// later reports whether the contract knows a setting, or this value of it, but
// the version at hand does not do it yet. Such a setting is refused by name,
// never ignored. When a behaviour is built, its line here goes.
func later(f field, value string) bool {
	const set = "" // any value but the default
	for _, l := range [...]struct{ name, value string }{
		{"format", "envelope"},
		{"value", "json"},
	} {
		if l.name == f.name && (l.value == value || l.value == set && value != f.preset) {
			return true
		}
	}
	return false
}
