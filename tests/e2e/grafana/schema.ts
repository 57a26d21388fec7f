// What the parts of a dashboard have to look like, by Grafana's own types of its oldest version that we support. A JSON Schema is made of it.
import type { Dashboard } from '@grafana/schema/dist/esm/raw/dashboard/x/dashboard_types.gen';
import type { Options as BarGaugeOptions } from '@grafana/schema/dist/esm/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen';
import type { Options as HeatmapOptions, FieldConfig as HeatmapCustom } from '@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen';
import type { Options as StatOptions } from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type { Options as TableOptions, FieldConfig as TableCustom } from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import type { Options as TimeSeriesOptions, FieldConfig as TimeSeriesCustom } from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';
import type { TempoQuery } from '@grafana/schema/dist/esm/raw/composable/tempo/dataquery/x/TempoDataQuery_types.gen';

export interface Shapes {
  dashboard: Dashboard;
  bargauge: { options: BarGaugeOptions };
  heatmap: { options: HeatmapOptions; custom: HeatmapCustom };
  stat: { options: StatOptions };
  table: { options: TableOptions; custom: TableCustom };
  timeseries: { options: TimeSeriesOptions; custom: TimeSeriesCustom };
  tempo: TempoQuery;
}
