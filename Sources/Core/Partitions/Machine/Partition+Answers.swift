import Model

// Answers, and what they wait for (rule: proven-answers).

extension Partition {
    /// The answer's record is durable: the answer goes on to what else it waits for, or out.
    func release(_ answer: Answer, by proof: Proof, _ turn: inout Turn) {
        if answer.needsConfirmation {
            confirm(answer)
            return
        }
        if let mark = answer.outboxes.first(where: { !isAcknowledged($0) }) {
            outboxWaiters[mark.partition, default: []].append(
                OutboxWaiter(number: mark.number, answer: answer, proof: proof))
            return
        }
        switch answer.to {
        case .request(let id):
            turn.effects.append(.reply(id, Proven(answer.reply, restingOn: .zero, by: proof)))
        case .question(let question):
            guard case .matching(let devices) = answer.reply else { return }
            questions.remove(question)
            let told = ConditionAnswer(ticket: question.ticket, partition: id, devices: devices)
            turn.effects.append(.tell(question.asker, Proven(told, restingOn: .zero, by: proof)))
        case .beginning: break
        case .end(let stream, let device):
            turn.effects.append(
                .stream(stream.gateway, Proven(.ended(stream, device), restingOn: .zero, by: proof)))
        case .stream(let stream):
            guard case .refused(let refusal) = answer.reply else { return }
            turn.effects.append(
                .stream(stream.gateway, Proven(.refused(stream, refusal), restingOn: .zero, by: proof)))
        }
    }

    /// Answers with what is known now, as soon as that is proven.
    func answer(_ answer: Answer) {
        if pipeline.isIdle { confirm(answer) } else { pipeline.hold(answer) }
    }

    /// Answers when the open record, which holds what the answer is about, is durable.
    func answerWithOpenRecord(_ answer: Answer) {
        pipeline.gated.answers.append(answer)
        pipeline.isUrgent = true
    }

    func confirm(_ answer: Answer) {
        lastToken += 1
        confirmations.append((lastToken, answer))
    }
}
