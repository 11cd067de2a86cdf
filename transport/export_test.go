package transport

// SetPartSize makes requests to write a file carry no more than n bytes, a
// multiple of 3, so that a test needs little content for many parts.
func (a *Agent) SetPartSize(n int) { a.part = n }
