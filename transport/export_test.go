package transport

// SetWriteLimit makes requests to write a file small, so that a test needs
// little content for many parts.
func (a *Agent) SetWriteLimit(payload int) { a.writeLimit = payload }
