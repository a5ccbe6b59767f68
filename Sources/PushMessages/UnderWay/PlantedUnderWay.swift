#if DEBUG
    /// Bugs that are planted in the decisions on messages under way to push services to show that a checker
    /// sees them. Only debug builds have them, and only a simulation switches them on.
    public struct PlantedUnderWay: OptionSet, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// A message goes again each time that its token is refused.
        public static let againAlways = PlantedUnderWay(rawValue: 1)
        /// A message goes again however late.
        public static let againLate = PlantedUnderWay(rawValue: 2)
        /// A message whose token is refused goes again with the same token.
        public static let keepRefused = PlantedUnderWay(rawValue: 4)
        /// A token that Apple finds changed too often is used on.
        public static let keepChanged = PlantedUnderWay(rawValue: 8)
        /// A connection that Apple does not want any more is used on.
        public static let keepConnection = PlantedUnderWay(rawValue: 16)
        /// A message without an answer counts as one that did not leave.
        public static let unansweredAsUnsent = PlantedUnderWay(rawValue: 32)
        /// A message that did not leave counts as one without an answer.
        public static let unsentAsUnanswered = PlantedUnderWay(rawValue: 64)
        /// Each answer with old news counts as the first one.
        public static let forgetOldNews = PlantedUnderWay(rawValue: 128)
    }
#endif
