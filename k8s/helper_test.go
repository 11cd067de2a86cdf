package k8s_test

import (
	"errors"
	"io"
	"log"

	"github.com/sandlot-go/sandlot/k8s"
)

// quiet is for servers whose peers break off on purpose.
var quiet = log.New(io.Discard, "", 0)

func asAPIError(err error) (*k8s.APIError, bool) { return errors.AsType[*k8s.APIError](err) }
