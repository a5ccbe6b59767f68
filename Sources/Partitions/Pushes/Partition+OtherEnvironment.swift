import Model

// A token that its environment at Apple's does not know is tried once in the other one, where the operator
// allows that.

extension Partition {
    /// Devices whose token is tried in the other environment at once. Of more the one that has been tried
    /// longest is forgotten, and begins again.
    static let elsewhereMax = 4096

    /// The address to which the device's next message goes: the stored one, or while that is tried the same
    /// token in Apple's other environment.
    func target(of index: UInt32, _ stored: StoredTransport) -> Transport {
        guard pushes.elsewhere[index] == stored.generation else { return stored.transport }
        return otherEnvironment(of: stored.transport, index) ?? stored.transport
    }

    private func otherEnvironment(of transport: Transport, _ index: UInt32) -> Transport? {
        guard let pushServices, let (page, slot) = state.devices.find(index) else { return nil }
        return pushServices[ProjectNumber(page.projects[slot])]?.otherEnvironment(of: transport)
    }

    /// Whether the device's messages go to the other environment now that this one does not know the token.
    /// A token that the environment has taken a message for has ended there, and is no token of the other.
    func triesElsewhere(_ sending: PushTable.Sending, _ outcome: PushOutcome?) -> Bool {
        let index = sending.index
        // Another address of the device may be in use meanwhile.
        let meant = address(of: sending).flatMap { $0.isGone ? nil : $0 }
        // Several messages of now or never may be on their way. Only the other environment's own answer says
        // anything of the token there.
        if outcome == .goneHere, pushes.elsewhere[index] == sending.generation,
            let stored = meant,
            PushOrigin(sending.origin.project, target(of: index, stored)) != sending.origin
        {
            return true
        }
        // The word of a service of another kind says nothing of the token.
        let isTried = isElsewhere(sending)
        if isTried {
            pushes.elsewhere.remove(index)
            // What waits until the other environment takes more goes to the told one now.
            pushes.unpark(index)
        }
        guard outcome == .goneHere, !isTried,
            let stored = meant, stored.generation == sending.generation, !wasAccepted(index, stored),
            otherEnvironment(of: stored.transport, index) != nil
        else { return false }
        #if DEBUG
            if options.planted.contains(.neverElsewhere) { return false }
        #endif
        pushes.elsewhere.update(index, default: stored.generation, keysMax: Partition.elsewhereMax) {
            $0 = stored.generation
        }
        return true
    }

    /// Whether the device's token is tried in the other environment.
    func isElsewhere(_ sending: PushTable.Sending) -> Bool {
        sending.origin.kind == .apns && pushes.elsewhere[sending.index] == sending.generation
    }

    /// Times do not tell the address: the clock may stand still between an answer and the next address.
    private func wasAccepted(_ index: UInt32, _ stored: StoredTransport) -> Bool {
        guard let known = pushes.accepted[index], known.kind == stored.transport.kind else { return false }
        return known.generation == stored.generation
    }

    /// A service has taken a message. Where that was the other environment, the address is stored as one of
    /// that environment.
    func keepEnvironment(of sending: PushTable.Sending) {
        let index = sending.index
        // The trial may have been forgotten with former settings.
        guard let stored = address(of: sending), stored.generation == sending.generation,
            let other = otherEnvironment(of: stored.transport, index),
            PushOrigin(sending.origin.project, other) == sending.origin
        else { return }
        pushes.elsewhere.remove(index)
        propose(.setTransport(index: index, other, at: stored.registered))
        pipeline.gated.addressed.append(index)
        pipeline.isUrgent = true
    }

    /// The address as the partition stores it. An app that tells a known token for the former environment
    /// does not undo what the environments have said.
    func settled(_ transport: Transport, of index: UInt32) -> Transport {
        guard let known = state.transports[index]?.first(where: { $0.transport.kind == transport.kind }),
            var other = otherEnvironment(of: transport, index), other.address == known.transport.address
        else { return transport }
        other.keepsMessages = transport.keepsMessages
        return other
    }
}
