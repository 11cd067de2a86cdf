package acquire

// What the schedule of looks is made of, for its table.
var (
	Schedule = schedule
	Learned  = learned
)
