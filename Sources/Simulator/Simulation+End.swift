import Model
import Partitions

// The end of a run: faults end, everything comes to rest, and the checkers look at the guarantees.

extension Simulation {
    /// Faults end; every device listens until nothing comes any more.
    func heal() {
        healedAt = now
        for client in clients.indices where clients[client].registration != nil {
            schedule(.listen(device: client), in: .seconds(1) + .nanoseconds(UInt64(client)))
        }
    }

    func lookAtLaws(of partition: Partition) {
        let isWhole = partition.laws.isWholeDue(size: partition.lawSize)
        guard brokenLaws.count < 10, let broken = partition.brokenInvariant(isWhole: isWhole) else { return }
        brokenLaws.append("partition \(partition.id.rawValue): \(broken)")
    }

    func finish() -> (history: History, violations: [Violation]) {
        if let broken { return (history, [Violation(guarantee: "journals", description: broken)]) }
        var unread: [Int] = []
        for (number, client) in clients.enumerated() {
            guard let registration = client.registration else { continue }
            history.final[number] = []
            nextRequest += 1
            var done = false
            let request = nextRequest
            waiting[request] = { reply, _ in
                done = true
                if case .subscriptions(let list) = reply {
                    self.history.final[number] = Set(list.map { self.topicNumber($0.topic) })
                }
            }
            schedule(
                .partition(
                    registration.partition,
                    .request(
                        RequestID(gateway: GatewayID(0), number: request),
                        .subscriptions(of: registration, by: .backend))),
                in: .nanoseconds(1))
            // A read waits for the topics' partitions, which a planted bug may keep from answering for ever.
            let end = now + .seconds(60)
            while !done, now < end, let (_, event) = queue.next() { handle(event) }
            if !done { unread.append(number) }
        }
        var violations = Checkers(history).all()
        if !unread.isEmpty {
            violations.append(
                Violation(guarantee: "G7", description: "the topics of devices \(unread) are never read"))
        }
        if isStuck {
            violations.append(
                Violation(guarantee: "G7", description: "\(waiting.count) operations are never answered"))
        }
        if marksMended > 0 {
            violations.append(
                Violation(guarantee: "G2", description: "\(marksMended) marks did not fit their outboxes"))
        }
        if fingerprintDifferences > 0 {
            violations.append(
                Violation(guarantee: "G1", description: "\(fingerprintDifferences) fingerprints differed"))
        }
        if bodiesGone > 0 {
            violations.append(
                Violation(
                    guarantee: "bodies", description: "\(bodiesGone) bodies of messages that waited are gone")
            )
        }
        violations += brokenLaws.map { Violation(guarantee: "invariant", description: $0) }
        violations += imagesDiffer()
        violations += fanoutsLeft()
        return (history, violations)
    }

    /// At rest no fan-out may be unfinished, and at no time may a partition have more of them than allowed.
    private func fanoutsLeft() -> [Violation] {
        var found: [Violation] = []
        if unfinishedMost > options.fanoutsMax {
            found.append(
                Violation(guarantee: "bounded-fanouts", description: "\(unfinishedMost) unfinished fan-outs"))
        }
        for case let partition? in partitions {
            let left = partition.unfinished(Simulation.project)
            if left != (0, 0) {
                found.append(
                    Violation(
                        guarantee: "bounded-fanouts",
                        description: "partition \(partition.id.rawValue) ends with \(left.counted) fan-outs"))
            }
        }
        return found
    }

    /// A replay of each journal, from each snapshot that is kept and from the beginning, must give the state
    /// of the living machine.
    private func imagesDiffer() -> [Violation] {
        var found: [Violation] = []
        for number in 0..<options.partitionCount {
            guard let partition = partitions[number], partition.isIdle else { continue }
            let lived = partition.image()
            let kept = snapshots[number].map { (snapshot: Optional($0.bytes), records: journal[number]) }
            for (snapshot, records) in kept + [(nil, past[number])]
            where folded(number, snapshot: snapshot, records)?.image() != lived {
                found.append(
                    Violation(
                        guarantee: "journals",
                        description: "partition \(number) is not the fold of its journal"
                            + (snapshot == nil ? "" : " behind a snapshot")))
            }
        }
        return found
    }
}
