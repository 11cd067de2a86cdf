//go:build !unix

package guest

import "os"

// readReady reads nothing: outputs are not cut off here, but closed.
func readReady(*os.File, []byte) int { return 0 }
