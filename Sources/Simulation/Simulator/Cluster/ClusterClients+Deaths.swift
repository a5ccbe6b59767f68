import Model
import Routing

// Clients that end between a request and its answer, as apps and backends do. They come back with what they
// have stored: the registration, the position, and each wish that has no answer.

extension ClusterClient {
    enum Life {
        case running, ended
        /// The client takes up what it left.
        case returning
    }

    /// Whether the client has come back and finds that a request of its earlier life has no answer.
    var isReturning: Bool { life == .returning }
}

extension ClusterSimulation {
    private var isDeadly: Bool { options.deathsPerMille > 0 && isLoading && !isHealing }

    /// Gives the client's answer to a call to `answered`. The client may end first: whatever becomes of the
    /// request, `answered` then gets `nil` when the client is back.
    func awaiting(
        _ what: String, by client: Int?, call id: UInt64, answered: @escaping (Outcome?) -> Void
    ) -> (Outcome?) -> Void {
        guard let client, options.deathsPerMille > 0 else { return answered }
        clients[client].awaited[id] = answered
        let isDoomed = isDeadly && chance(options.deathsPerMille)
        let dies = { [unowned self] in
            if isDoomed, clients[client].awaited[id] != nil { end(client, waitingFor: what) }
        }
        if isDoomed { after(untilDeath, .client, body: dies) }
        return { [unowned self] outcome in
            dies()
            guard let answered = clients[client].awaited.removeValue(forKey: id) else {
                return noteLost(outcome, what)
            }
            answered(outcome)
        }
    }

    /// Counts the operations that took effect, though no client got the answer.
    private func noteLost(_ outcome: Outcome?, _ what: String) {
        switch outcome {
        case .refused?, nil: break
        default: count("answers lost, \(what)")
        }
    }

    /// Each order of magnitude up to half a second. An answer that comes sooner is the last moment.
    private var untilDeath: TimeSpan { roll(.microseconds(1 << roll(20))) }

    /// A stream that its device has asked for. The device may end before anything comes.
    func drawDeath(before listener: Listener) {
        guard isDeadly, chance(options.deathsPerMille) else { return }
        listener.isDoomed = true
        after(untilDeath, .client) { self.endIfDoomed(listener) }
    }

    func endIfDoomed(_ listener: Listener) {
        guard listener.isDoomed, listener.isOpenAtDevice else { return }
        listener.isDoomed = false
        end(listener.device, waitingFor: "stream")
    }

    /// The client ends, and waits for no answer any more. Requests that have left are carried out or not.
    private func end(_ client: Int, waitingFor what: String) {
        guard isDeadly, clients[client].life == .running else { return }
        count("clients ended, \(what)")
        debug("client \(client) ends without the answer to its \(what)")
        clients[client].life = .ended
        let unanswered = clients[client].awaited.sorted { $0.key < $1.key }
        clients[client].awaited = [:]
        clients[client].putOff = unanswered.map { call in { call.value(nil) } }
        clients[client].listener?.isDeserted = true
        hangUp(client)
        after(roll(2) == 0 ? roll(.milliseconds(20)) : roll(.seconds(5)), .client) { self.comeBack(client) }
    }

    /// The client begins again.
    func comeBack(_ client: Int) {
        guard clients[client].life == .ended else { return }
        debug("client \(client) is back")
        clients[client].life = .returning
        let steps = clients[client].putOff
        clients[client].putOff = []
        for step in steps { step() }
        clients[client].life = .running
        listen(client)
    }

    /// Whether the client has ended. Then it takes this step when it is back.
    func putsOff(_ client: Int, _ step: @escaping () -> Void) -> Bool {
        guard clients[client].life == .ended else { return false }
        clients[client].putOff.append(step)
        return true
    }

    /// How long a client waits before it repeats what was not answered or not taken. A client that comes back
    /// begins with that.
    func pause(_ client: Int, from least: UInt64, to most: UInt64) -> TimeSpan {
        if clients[client].isReturning { return roll(.milliseconds(2)) }
        return .milliseconds(least) + roll(.milliseconds(most - least))
    }
}
