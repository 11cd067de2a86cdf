package policy_test

import (
	"os"
	"testing"

	"github.com/sandlot-go/sandlot/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Check(m.Run())) }
