package sim_test
import ("testing";"fmt";"github.com/sandlot-go/sandlot/internal/sim";"time")
func TestDbg(t *testing.T){
	bubble(t, sim.Config{}, func(e *env) {
		b := time.Now()
		for i := range 60 { e.claim(fmt.Sprint("c", i), "pool", nil) }
		time.Sleep(time.Second)
		n:=0
		for i := range 60 { if ready(e.Get("sandboxclaims", fmt.Sprint("c", i)))=="True DependenciesReady" {n++} }
		fmt.Println(n, time.Since(b))
	})
}
