import Model
import Partitions

// When a service's word about a device is believed (rule: one-word-ends-nothing).

extension PushSender {
    /// What the answer is taken for, where the service says that it does not know an address and that is not
    /// believed: under settings with which the service has taken nothing lately a refused key, else a failure
    /// (rule: one-word-ends-nothing). `nil` for all other answers.
    func doubt(
        _ outcome: PushOutcome, _ state: inout State, now: MonotonicTime
    ) -> PushOutcome? {
        switch outcome {
        case .accepted: state.goneInRow = 0
        case .gone, .goneHere:
            #if DEBUG
                if planted.contains(.believeEachWord) { return nil }
            #endif
            guard let proven = state.provenAt, now.since(proven) < bounds.believedFor else {
                return .credentials(
                    "the service does not know an address, and has taken nothing lately: the setting may be"
                        + " wrong")
            }
            state.goneInRow += 1
            return state.goneInRow > bounds.goneInRowMax ? .transient(retryAfterSeconds: nil) : nil
        default: break
        }
        return nil
    }
}
