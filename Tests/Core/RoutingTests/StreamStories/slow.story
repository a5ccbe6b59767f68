# A phone that does not read falls behind. The owner keeps nothing for it but the log, from which the stream catches up.
phone registers
phone listens
backend sends m1
run 50ms unseen
phone stops reading
backend sends m2
run 20ms
> 0.051 s  the owner of epoch 1 writes record 4
> 0.056 s  the database has record 4
> 0.056 s  the owner of epoch 1 answers the backend: accepted
> 0.056 s  the owner of epoch 1 sends frame 2, a push of m2
> 0.057 s  the gateway cannot write m2: the phone does not read
> 0.057 s  the gateway tells the owner that stream 1 fell behind, with m1 written
> 0.057 s  the gateway confirms frame 2
backend sends m3
run 20ms
> 0.071 s  the owner of epoch 1 writes record 5
> 0.076 s  the database has record 5
> 0.076 s  the owner of epoch 1 answers the backend: accepted
phone reads again
run 20ms
> 0.090 s  the gateway tells the owner that stream 1 takes events again
> 0.091 s  the owner of epoch 1 sends m2 and m3 from the log
> 0.091 s  the owner of epoch 1 sends word that nothing more waits: stream 1 is live
> 0.092 s  the gateway writes m2 to the phone
> 0.092 s  the gateway writes m3 to the phone
backend sends m4
run 20ms
> 0.111 s  the owner of epoch 1 writes record 6
> 0.116 s  the database has record 6
> 0.116 s  the owner of epoch 1 answers the backend: accepted
> 0.116 s  the owner of epoch 1 sends frame 3, a push of m4
> 0.117 s  the gateway writes m4 to the phone
> 0.117 s  the gateway confirms frame 3
