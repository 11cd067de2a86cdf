package uuid_test

import (
	"regexp"
	"testing"

	"github.com/sandlot-go/sandlot/internal/uuid"
)

func TestNew(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := make(map[string]bool)
	for range 1000 {
		u := uuid.New()
		if !form.MatchString(u) || seen[u] {
			t.Fatalf("got %q", u)
		}
		seen[u] = true
	}
}
