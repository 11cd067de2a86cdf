package guest

import "context"

// whenDone has f called, in a goroutine, when ctx is done. The function that is
// returned takes that back, or waits for f when it is too late: nothing is left
// of an answer that has ended.
func whenDone(ctx context.Context, f func()) (end func()) {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		f()
	})
	return func() {
		if !stop() {
			<-ended
		}
	}
}
