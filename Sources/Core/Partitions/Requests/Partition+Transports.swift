import Model

// Requests about the push services that reach a device.

extension Partition {
    /// The partition stores an unchanged address again after this time, so that the time of registration
    /// stays near the truth without a record for each start of an app. Milliseconds.
    static let transportFreshness: Int64 = 24 * 3_600_000

    func set(
        _ transport: Transport, of registration: Registration, by authority: Authority, as id: RequestID,
        _ turn: inout Turn
    ) {
        if let refusal = examine(registration, authority).refusal { return refuse(id, refusal) }
        let index = registration.index.rawValue
        let time = turn.now.wall
        let former = state.transports[index]?.first { $0.transport.kind == transport.kind }
        if let former, former.transport == transport, former.mark == nil,
            abs(time.milliseconds - former.registered.milliseconds) < Partition.transportFreshness
        {
            return reply(id, .done)
        }
        guard !isOverloaded else { return refuseAtOnce(id, &turn) }
        propose(.setTransport(index: index, transport, at: time))
        pipeline.gated.addressed.append(index)
        answerWithOpenRecord(Answer(to: .request(id), reply: .done))
    }

    func endTransport(
        _ kind: Transport.Kind, of registration: Registration, by authority: Authority, as id: RequestID,
        _ turn: inout Turn
    ) {
        if let refusal = examine(registration, authority).refusal { return refuse(id, refusal) }
        let index = registration.index.rawValue
        guard let stored = state.transports[index]?.first(where: { $0.transport.kind == kind }) else {
            return reply(id, .done)
        }
        guard !isOverloaded else { return refuseAtOnce(id, &turn) }
        let former = pushAddress(index)
        propose(.endTransport(index: index, kind, generation: stored.generation))
        // The device's own word shows that the device is there.
        if state.transports.unreachable.since[index] != nil { forgetGoneAddresses(of: index) }
        // What the previous address got may still wait for another one.
        wantPush(index, afterAddress: former)
        answerWithOpenRecord(Answer(to: .request(id), reply: .done))
    }

    func device(_ registration: Registration, _ authority: Authority, at now: WallTime) -> Reply {
        let found = examine(registration, authority)
        if let refusal = found.refusal { return .refused(refusal) }
        guard let page = found.page else { return .refused(.unregistered) }
        let index = registration.index.rawValue
        let stored = (state.transports[index] ?? []).filter { !$0.isGone }
        let summary = state.summary(of: index, on: page, at: found.slot, now)
        return .device(summary, stored, pushes: pushHistory(of: index, stored))
    }
}
