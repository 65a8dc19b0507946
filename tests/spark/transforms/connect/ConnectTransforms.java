// Runs cases through Connect's own transforms and writes down what they make of them. See record.py beside this file.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

public class ConnectTransforms {
    static final ObjectMapper MAPPER = new ObjectMapper();
    static final SimpleHeaderConverter HEADERS = new SimpleHeaderConverter();
    static final Map<String, JsonConverter> CONVERTERS = new HashMap<>();

    record Step(Transformation<SinkRecord> transform, Predicate<SinkRecord> predicate, boolean negate) {}

    public static void main(String[] args) throws Exception {
        ArrayNode answers = MAPPER.createArrayNode();
        for (JsonNode one : MAPPER.readTree(new File(args[0]))) {
            ObjectNode answer = answers.addObject();
            answer.set("name", one.get("name"));
            try {
                List<Step> steps = steps(one.get("transforms"));
                ArrayNode records = answer.putArray("records");
                for (JsonNode record : one.get("records")) {
                    records.add(answer(steps, record));
                }
            } catch (Exception error) {
                answer.remove("records");
                answer.put("refused", error.getClass().getSimpleName() + ": " + error.getMessage());
            }
        }
        MAPPER.writerWithDefaultPrettyPrinter().writeValue(new File(args[1]), answers);
    }

    @SuppressWarnings("unchecked")
    static List<Step> steps(JsonNode transforms) throws Exception {
        List<Step> steps = new ArrayList<>();
        for (JsonNode one : transforms) {
            Transformation<SinkRecord> transform = (Transformation<SinkRecord>) made(one.get("class").asText());
            transform.configure(texts(one.get("config")));
            Predicate<SinkRecord> predicate = null;
            if (one.hasNonNull("predicate")) {
                predicate = (Predicate<SinkRecord>) made(one.get("predicate").get("class").asText());
                predicate.configure(texts(one.get("predicate").get("config")));
            }
            steps.add(new Step(transform, predicate, one.path("negate").asBoolean(false)));
        }
        return steps;
    }

    static Object made(String name) throws Exception {
        return Class.forName(name).getDeclaredConstructor().newInstance();
    }

    static Map<String, String> texts(JsonNode node) {
        Map<String, String> texts = new HashMap<>();
        node.fields().forEachRemaining(entry -> texts.put(entry.getKey(), entry.getValue().asText()));
        return texts;
    }

    static JsonConverter converter(boolean schemas, boolean key) {
        return CONVERTERS.computeIfAbsent(schemas + " " + key, name -> {
            JsonConverter made = new JsonConverter();
            made.configure(Map.of("schemas.enable", String.valueOf(schemas), "decimal.format", "NUMERIC"), key);
            return made;
        });
    }

    static SchemaAndValue read(JsonNode given, boolean schemas, boolean key) {
        byte[] bytes = given.isNull() ? null : given.asText().getBytes(StandardCharsets.UTF_8);
        return bytes == null ? SchemaAndValue.NULL : converter(schemas, key).toConnectData("t", bytes);
    }

    static ObjectNode answer(List<Step> steps, JsonNode given) {
        ObjectNode answer = MAPPER.createObjectNode();
        boolean schemas = given.get("schemas").asBoolean();
        SchemaAndValue key = read(given.get("key"), schemas, true);
        SchemaAndValue value = read(given.get("value"), schemas, false);
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode header : given.get("headers")) {
            byte[] bytes = header.get(1).isNull() ? null : header.get(1).asText().getBytes(StandardCharsets.UTF_8);
            headers.add(header.get(0).asText(), HEADERS.toConnectHeader("t", header.get(0).asText(), bytes));
        }
        Long timestamp = given.get("timestamp").isNull() ? null : given.get("timestamp").asLong();
        SinkRecord record = new SinkRecord(
            given.get("topic").asText(), given.get("partition").asInt(), key.schema(), key.value(), value.schema(),
            value.value(), given.get("offset").asLong(), timestamp, TimestampType.CREATE_TIME, headers);
        try {
            for (Step step : steps) {
                if (step.predicate() == null || step.predicate().test(record) != step.negate()) {
                    record = step.transform().apply(record);
                    if (record == null) {
                        return answer.put("dropped", true);
                    }
                }
            }
            answer.put("topic", record.topic());
            answer.put("key", written(record.keySchema(), record.key(), true));
            answer.put("value", written(record.valueSchema(), record.value(), false));
            ArrayNode written = answer.putArray("headers");
            for (Header header : record.headers()) {
                byte[] bytes = HEADERS.fromConnectHeader("t", header.key(), header.schema(), header.value());
                written.addArray().add(header.key()).add(bytes == null ? null : new String(bytes, StandardCharsets.UTF_8));
            }
            return answer;
        } catch (Exception error) {
            return MAPPER.createObjectNode().put("failed", error.getClass().getSimpleName() + ": " + error.getMessage());
        }
    }

    static String written(Schema schema, Object value, boolean key) {
        byte[] bytes = converter(schema != null, key).fromConnectData("t", schema, value);
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }
}
