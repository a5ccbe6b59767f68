import Model
import Partitions

// The way of messages from partitions to push services, and of the answers back.

extension LoopCore {
    /// A partition has a message for a push service.
    func push(_ job: PushJob, of partition: PartitionID) {
        guard host.monotonic < host.authority else {
            // Another node may own the partition, and may have pushed the message.
            let result = PushReport.Result.closed(for: options.pushes.pauseMin)
            return enqueue(.partition(partition, .pushed(PushReport(number: job.number, result))))
        }
        if let observer, let machine = partitions[partition] { observer.pushes(job, of: machine) }
        limiter.submit(job, of: partition, now: now.monotonic, into: &limiterEffects)
        carryOutSending()
    }

    func pushed(_ number: UInt64, _ outcome: PushOutcome) {
        limiter.answered(number, outcome, now: now.monotonic, into: &limiterEffects)
        carryOutSending()
    }

    func pushesChanged(_ changed: [ProjectNumber: PushServices]) {
        limiter.reopen(Set(changed.keys))
        observer?.reopens(Set(changed.keys))
        pushServices?.merge(changed) { $1 }
        for id in partitions.keys.sorted() { enqueue(.partition(id, .pushesChanged(changed))) }
    }

    func lookAtPushes() {
        pushesWake = nil
        limiter.woke(now: now.monotonic, into: &limiterEffects)
        carryOutSending()
    }

    /// A planted bug.
    private var hidesRefusedKeys: Bool {
        #if DEBUG
            return limiter.planted.contains(.hideRefusedKeys)
        #else
            return false
        #endif
    }

    private func carryOutSending() {
        for effect in limiterEffects {
            switch effect {
            case .send(let request):
                observer?.sends(request.job)
                effects.append(.push(request))
            // The partition may be in the middle of an event.
            case .report(let partition, let report): enqueue(.partition(partition, .pushed(report)))
            case .noted(let origin, let outcome, let isFormer):
                observer?.hears(outcome, from: origin, isFormer: isFormer)
                effects.append(.noted(.pushed(origin.kind, outcome)))
            case .doubted(let origin): effects.append(.noted(.doubtedDevices(origin)))
            // Another loop judges by what its own messages come to.
            case .keyRefused(let origin, let until):
                if hidesRefusedKeys { continue }
                for id in partitions.keys.sorted() {
                    enqueue(.partition(id, .keyRefused(origin, until: until)))
                }
            }
        }
        limiterEffects.removeAll(keepingCapacity: true)
        guard let next = limiter.nextWake, pushesWake.map({ next < $0 }) ?? true else { return }
        pushesWake = next
        effects.append(.wake(.pushes, at: next))
    }
}
