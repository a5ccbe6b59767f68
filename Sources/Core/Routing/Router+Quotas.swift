import Model
import Quotas

/// Operations of one project and kind that wait for the bucket's owner.
struct WaitingLine {
    var operations: [(operation: Operation, ticket: UInt64, since: MonotonicTime)] = []
    var until: MonotonicTime
}

struct LineKey: Hashable {
    var project: ProjectNumber
    var kind: QuotaKind

    static func isBefore(_ left: LineKey, _ right: LineKey) -> Bool {
        (left.project, left.kind.rawValue) < (right.project, right.kind.rawValue)
    }
}

extension Router {
    /// The owner of a project's buckets answered.
    public func granted(_ grant: QuotaGrant, now: Instant, into effects: inout [RouterEffect]) {
        handle(now, into: &effects) { turn in
            admission.receive(grant, now: now.monotonic)
            carryOutQuota(&turn)
        }
    }

    /// The time for which the spender asked has come.
    public func quotaWoke(now: Instant, into effects: inout [RouterEffect]) {
        handle(now, into: &effects) { turn in
            admission.woke(now: now.monotonic)
            let due = lines.filter { $0.value.until <= now.monotonic }.keys
            for key in due.sorted(by: LineKey.isBefore) { goOn(key, &turn) }
            carryOutQuota(&turn)
        }
    }

    /// Puts an operation into the queue of its project; false if the queue is full.
    func wait(
        _ operation: Operation, ticket: UInt64, in key: LineKey, until: MonotonicTime, since: MonotonicTime
    ) -> Bool {
        var line = lines.removeValue(forKey: key) ?? WaitingLine(until: until)
        defer { lines[key] = line }
        guard line.operations.count < options.bounds.quotaWaitersMax else { return false }
        line.until = min(line.until, until)
        line.operations.append((operation, ticket, since))
        return true
    }

    /// The waiting operations ask again, in their order. Those that must wait once more keep that order.
    private func goOn(_ key: LineKey, _ turn: inout Turn) {
        guard let line = lines.removeValue(forKey: key) else { return }
        for waiting in line.operations {
            if turn.now.monotonic.since(waiting.since) >= options.bounds.quotaWaitMax {
                turn.finish(waiting.ticket, unanswered)
            } else {
                submit(waiting.operation, ticket: waiting.ticket, since: waiting.since, &turn)
            }
        }
    }

    func carryOutQuota(_ turn: inout Turn) {
        while !admission.effects.isEmpty {
            var batch: [QuotaSpender.Effect] = []
            swap(&batch, &admission.effects)
            for effect in batch {
                switch effect {
                case .request(let request): turn.effects.append(.quota(request))
                case .wake(let at): turn.effects.append(.wakeQuota(at: at))
                case .ready(let project, let kind): goOn(LineKey(project: project, kind: kind), &turn)
                }
            }
        }
    }
}
