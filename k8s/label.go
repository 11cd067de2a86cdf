package k8s

import (
	"fmt"
	"strings"
)

// CheckLabel refuses a label that the API server would refuse.
func CheckLabel(key, value string) error {
	if err := CheckLabelKey(key); err != nil {
		return err
	}
	if err := CheckLabelValue(value); err != nil {
		return fmt.Errorf("label %s: %w", key, err)
	}
	return nil
}

// CheckLabelKey refuses what is no label key: a name of at most 63 characters,
// with or without a DNS name and a slash before it.
func CheckLabelKey(key string) error {
	domain, name, prefixed := strings.Cut(key, "/")
	if !prefixed {
		domain, name = "", key
	}
	if prefixed && validateSubdomain("", domain) != nil {
		return fmt.Errorf("label key %.300q: %.300q before the slash is no DNS name", key, domain)
	}
	if name == "" || !labelText(name) {
		return fmt.Errorf("label key %.300q: the name must be 1 to 63 letters, digits, '-', '_' and '.', and begin and end with a letter or digit", key)
	}
	return nil
}

// CheckLabelValue refuses what is no label value. The empty value is one.
func CheckLabelValue(value string) error {
	if value != "" && !labelText(value) {
		return fmt.Errorf("label value %.100q: want at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit", value)
	}
	return nil
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func labelText(s string) bool {
	if len(s) > 63 || !alphanumeric(s[0]) || !alphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}
