package sim_test

import (
	"os"
	"testing"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/internal/leak"
)

func TestMain(m *testing.M) {
	guest.RunLauncher()
	os.Exit(leak.Check(m.Run()))
}
