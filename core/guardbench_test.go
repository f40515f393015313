package core
import ("testing";"context";"github.com/herdgate/herdgate/internal/redistest";"time")
func BenchmarkGuard(b *testing.B) {
	s := redistest.Shared(b)
	c := s.Client()
	g, _, _, _ := bounded(c, newTroubles())
	c.Set(context.Background(), "k", make([]byte, 1024), time.Hour)
	b.Run("raw", func(b *testing.B) { b.ReportAllocs(); for b.Loop() { ctx, cancel := context.WithTimeout(context.Background(), readBudget); g.redisClient.Get(ctx, "k"); cancel() } })
	b.Run("guarded", func(b *testing.B) { b.ReportAllocs(); for b.Loop() { ctx, cancel := context.WithTimeout(context.Background(), readBudget); g.Get(ctx, "k"); cancel() } })
	b.Run("rawp", func(b *testing.B) { b.ReportAllocs(); b.RunParallel(func(pb *testing.PB){ for pb.Next() { ctx, cancel := context.WithTimeout(context.Background(), readBudget); g.redisClient.Get(ctx, "k"); cancel() } })})
	b.Run("guardedp", func(b *testing.B) { b.ReportAllocs(); b.RunParallel(func(pb *testing.PB){ for pb.Next() { ctx, cancel := context.WithTimeout(context.Background(), readBudget); g.Get(ctx, "k"); cancel() } })})
}
