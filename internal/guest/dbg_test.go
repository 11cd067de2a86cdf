package guest_test
import ("testing";"fmt";"time";"slices";"sync")
func TestDbg(t *testing.T){
 rs := slices.DeleteFunc(loadRecordings(t), func(r *recording) bool { return !slices.Contains([]string{"preauth-buffer-raised-to-frame-cap","preauth-buffer-exhausted"},r.Name)})
 var wg sync.WaitGroup
 for range 6 { wg.Go(func(){
 for range 15 {
 for i := range rs {
 res:=make([][]string,len(rs))
 t0:=time.Now()
 playGroup(rs,[]int{i},res); if len(res[i])>0 {fmt.Println(time.Since(t0), rs[i].Name, res[i]) }
 }}})}
 wg.Wait()
}
