package guest_test
import ("testing";"fmt";"time";"slices")
func TestDbg(t *testing.T){
 rs := slices.DeleteFunc(loadRecordings(t), func(r *recording) bool { return !slices.Contains([]string{"preauth-buffer-exhausted"},r.Name)})
 for range 60 {
 for i := range rs {
 res:=make([][]string,len(rs))
 t0:=time.Now()
 println("=====")
 playGroup(rs,[]int{i},res); if len(res[i])>0 {fmt.Println(time.Since(t0), rs[i].Name, res[i]); return }
 }}
}
