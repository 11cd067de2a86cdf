package transport_test

import (
	"os"
	"testing"

	"github.com/sandlot-go/sandlot/internal/leak"
)

// become, if there is one, makes this test binary another program, when the
// environment asks for it, and does not return then.
var become func()

func TestMain(m *testing.M) {
	if become != nil {
		become()
	}
	os.Exit(leak.Check(m.Run()))
}
