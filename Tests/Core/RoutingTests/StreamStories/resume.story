# Messages wait for a phone that is away. What it has seen, which it acknowledges as it comes back, does not come again.
phone registers
phone listens
backend sends m1
run 50ms unseen
phone goes
run 20ms
> 0.050 s  the gateway tells the owner that stream 1 has ended
backend sends m2
backend sends m3
run 20ms
> 0.071 s  the owner of epoch 1 writes record 4
> 0.076 s  the database has record 4
> 0.076 s  the owner of epoch 1 answers the backend: accepted
> 0.076 s  the owner of epoch 1 writes record 5
> 0.081 s  the database has record 5
> 0.081 s  the owner of epoch 1 answers the backend: accepted
phone listens after m1
run 30ms
> 0.090 s  the gateway attaches stream 2 at the owner, attachment 1, for a phone that has seen m1
> 0.091 s  the owner of epoch 1 writes record 6
> 0.096 s  the database has record 6
> 0.096 s  the owner of epoch 1 sends word that it has attached stream 2, for what comes after m1
> 0.096 s  the owner of epoch 1 sends m2 and m3 from the log
> 0.096 s  the owner of epoch 1 sends word that nothing more waits: stream 2 is live
> 0.097 s  the gateway opens stream 2 for the phone
> 0.097 s  the gateway writes m2 to the phone
> 0.097 s  the gateway writes m3 to the phone
