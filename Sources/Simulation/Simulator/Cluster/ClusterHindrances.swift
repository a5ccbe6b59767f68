import Routing

// Why an undertaking is not done long after the last fault. Only resources that the draw itself makes scarce
// excuse this: tokens, topics of a device, and operations that a gateway takes at once. Any other reason
// breaks G7, and the violation names it.

extension ClusterSimulation {
    enum Undertaking: Hashable {
        /// A send, by its message's number.
        case send(UInt64)
        /// A change, by its index in the history.
        case change(Int)
        /// An unregistration, by its device.
        case end(Int)
    }

    enum Hindrance {
        case scarce
        case other(String)
    }

    /// Notes the outcome of the newest try.
    func note(_ outcome: Outcome?, of undertaking: Undertaking) {
        switch outcome {
        case .refused(.quota)?, .refused(.tooManyTopics)?:
            hindrances[undertaking] = .scarce
        case .refused(.unavailable(let why))? where Router.scarcities.contains(why):
            hindrances[undertaking] = .scarce
        case .refused(let refusal)?: hindrances[undertaking] = .other("\(refusal)")
        case nil: hindrances[undertaking] = .other("its connection ends")
        default: hindrances[undertaking] = nil
        }
    }

    func mustBeExcused(_ undertaking: Undertaking) {
        let why: String
        switch hindrances[undertaking] {
        case .scarce: return
        case .other(let last): why = last
        case nil: why = "no answer"
        }
        let what: String
        switch undertaking {
        case .send(let message): what = "message \(message) is not taken"
        case .change(let index):
            let change = history.changes[index]
            what = "device \(change.device)'s change of topic \(change.topic) is not answered"
        case .end(let device): what = "device \(device) cannot end"
        }
        violate("G7", "long after the last fault \(what): \(why)")
    }
}
