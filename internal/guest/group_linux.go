package guest

// onlyZombies returns a function that reports whether the group has members, and
// all of them have ended and only wait for their parent, some init, to take
// notice. Not every init is quick about that.
func (g group) onlyZombies() func() bool {
	alive := 0 // a member that was, which saves looking at all processes
	return func() bool {
		if alive != 0 && g.member(alive) == living {
			return false
		}
		all, err := pids()
		if err != nil {
			return false
		}
		found := false
		for _, pid := range all {
			switch g.member(pid) {
			case living:
				alive = pid
				return false
			case zombie:
				found = true
			}
		}
		return found
	}
}

type membership int

const (
	stranger membership = iota
	living
	zombie
)

// member says what the process of that pid is to the group.
func (g group) member(pid int) membership {
	switch p, ok := lookAt(pid); {
	case !ok || p.group != int(g):
		return stranger
	case p.ended():
		return zombie
	}
	return living
}
