# A push is lost. The number of the next push shows it, and the gateway attaches the stream again.
phone registers
phone listens
backend sends m1
run 50ms unseen
frames lost 1
backend sends m2
run 20ms
> 0.051 s  the owner of epoch 1 writes record 4
> 0.056 s  the database has record 4
> 0.056 s  the owner of epoch 1 answers the backend: accepted
> 0.056 s  the owner of epoch 1 sends frame 2, a push of m2
> 0.057 s  the network loses frame 2, a push of m2
backend sends m3
run 30ms
> 0.071 s  the owner of epoch 1 writes record 5
> 0.076 s  the database has record 5
> 0.076 s  the owner of epoch 1 answers the backend: accepted
> 0.076 s  the owner of epoch 1 sends frame 3, a push of m3
> 0.077 s  the gateway attaches stream 1 at the owner, attachment 2
> 0.077 s  the gateway confirms frame 3
> 0.079 s  the owner of epoch 1 sends word that it has attached stream 1, for what comes after the beginning
> 0.079 s  the owner of epoch 1 sends m1, m2 and m3 from the log
> 0.079 s  the owner of epoch 1 sends word that nothing more waits: stream 1 is live
> 0.080 s  the gateway writes m2 to the phone
> 0.080 s  the gateway writes m3 to the phone
