package guest

// HeldBytes is how many bytes connections hold that have not authenticated.
func (s *Server) HeldBytes() int {
	s.preauth.mu.Lock()
	defer s.preauth.mu.Unlock()
	return s.preauth.bytes
}
