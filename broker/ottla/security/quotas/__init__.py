"""Client quotas: who may do how much of what (KIP-13, KIP-124, KIP-257, KIP-546, KIP-599, KIP-612).

`limits` finds the limit that holds for a user and a client id, and with it who shares a measurement; `measurements`
keep what was used, `charge` holds it against one request and says for how long its connection is to be muted (KIP-219);
`mutations` does so for changes of partitions at the active controller, `connection_rates` for new connections. Nothing
here knows a connection: whoever asks does the waiting.

Source: ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager and ConnectionQuotas of Apache
Kafka 4.3.
"""
