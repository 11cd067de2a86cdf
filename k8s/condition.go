package k8s

// A Condition is one entry of status.conditions.
type Condition struct {
	Type, Status, Reason, Message string

	// ObservedGeneration is the generation of the object that the condition was
	// computed from; HasGeneration reports whether the condition says so at all.
	// A condition older than the object's own generation describes its past.
	ObservedGeneration int64
	HasGeneration      bool
}

// True reports whether the status is exactly "True".
func (c Condition) True() bool { return c.Status == "True" }

// False reports whether the status is exactly "False". A condition may be
// neither true nor false.
func (c Condition) False() bool { return c.Status == "False" }

// Condition returns the first condition of the given type and reports whether
// there is one. It takes status.conditions of any shape.
func (o Object) Condition(kind string) (Condition, bool) {
	for _, v := range o.List("status", "conditions") {
		m := mapOf(v)
		if m == nil || m.Text("type") != kind {
			continue
		}
		c := Condition{
			Type:    kind,
			Status:  m.Text("status"),
			Reason:  m.Text("reason"),
			Message: m.Text("message"),
		}
		c.ObservedGeneration, c.HasGeneration = m.Int("observedGeneration")
		return c, true
	}
	return Condition{}, false
}
